"""Sentences for the card about the exactness of mechanisms. Mechanisms and methods declare them.

A method of another package can declare these and its own sentences (`BudgetRequest.remarks`,
`MethodFacts.remarks`).
"""

INTEGER_NOISE = (
    "Noise on counts is integer noise. It is sampled exactly, with a seed from the "
    "operating system. Floating-point attacks on the noise do not apply."
)
METADATA_TABLE = (
    "The metadata table is one adaptive mechanism: noisy marginals, and noisy distances or "
    "private selections, under one privacy filter."
)
EMBEDDINGS = (
    "The votes, the scores and the attributes by zero_shot of a record depend only on its "
    "embedding, exactly. The encoder computes in float32. An embedding has the bits of its "
    "text alone: texts share a batch only in shapes where public texts kept every bit at "
    "all positions, tested on the machine of the run. The promise assumes that the matrix "
    "library orders its sums by shapes and positions, and not by the numbers. An encoder "
    "of another package must keep this promise itself."
)
CLASS_SUMS = (
    "The noisy sum of the scores also contains sums of the records' embeddings by attribute value. "
    "They help to read the labels of the texts. A record's scores and embeddings together have the "
    "norm of one vote, so one charge pays for both."
)
LABELS_BY_LLM = (
    "Attributes with `source: llm`: the guarantee assumes that the endpoint's answer about a "
    "record does not depend on other records. A server that answers several calls in one batch may "
    "round differently. The accounting does not include this. A record gets the value `other` if "
    "the endpoint rejects its text or gives no usable answer. A call without any answer stops the "
    "run before any charge."
)
OVERLAP = (
    "Public texts were not compared with the private records. The settings declare "
    "(prepare.accept_overlap) that every donated text and every text of a pool may be published, "
    "although some may resemble private records."
)
INDEPENDENT_ROWS = (
    "Assumption about the private rows: no row depends on other rows. The settings declare this "
    "(prepare.rows_depend_on_other_rows: false), and Sugarbush did not check it. If a query "
    "chooses or computes rows by other rows, as with LIMIT or a window, the guarantee does not "
    "hold."
)
DPSGD_NOISE = (
    "The noise of DP-SGD is sampled in floating point from a generator with a seed from "
    "the operating system. Attacks on its low-order bits are out of scope. Clipping accounts "
    "for the rounding of a record's own gradient. On one GPU, gradients are computed in bfloat16 "
    "and in batches of fixed shapes, and clipping also accounts for the rounding of sums. "
    "Otherwise they are computed in float32, and the accounting does not include the last bits of "
    "other records' gradients, which depend on the padding of their batch."
)

# What settings declare and nobody can check. Every card that counts a charge under such a setting
# says so (`Ledger.declared`).
ROWS_SETTING = "prepare.rows_depend_on_other_rows"
OVERLAP_SETTING = "prepare.accept_overlap"
DIFFERENT_SETTING = "privacy.different_from"
DECLARED = {OVERLAP_SETTING: OVERLAP, ROWS_SETTING: INDEPENDENT_ROWS}
