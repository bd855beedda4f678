"""Training on private text: DP-SGD and confidentially redacted training."""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "crt.confidentiality": ("agreed_gamma", "allowed", "bayesian", "noise_for"),
        "crt.findings": ("Finding",),
        "crt.lstm": ("LstmModel",),
        "crt.patterns": ("RegexDetector", "described=describe_patterns"),
        "crt.policies": ("make_policy", "make_public_policy"),
        "crt.recall": ("LabelledText", "load_labelled", "measure=measure_recall"),
        "crt.redact": ("PAPER_THRESHOLD=THRESHOLD", "Policy", "TextSpan"),
        "crt.screening": ("Screened", "screen"),
        "crt.sentences": ("sentences_of",),
        "crt.train": ("PublicPass", "train_by_crt"),
        "crt.units": ("add_mask_token", "text_units"),
        "dpsgd.checkpoints": ("Checkpoints",),
        "dpsgd.clipping": ("PerRecordClipper",),
        "dpsgd.data": ("control_codes", "examples_of", "plain_examples", "probe_examples"),
        "dpsgd.generate": ("generate=generate_texts",),
        "dpsgd.language_modelling": ("Example", "pad_together", "perplexity", "token_losses"),
        "dpsgd.models": (
            "END",
            "ModelShape",
            "load=load_model",
            "merged",
            "new_model",
            "save=save_model",
            "train_tokenizer",
            "with_lora",
        ),
        "dpsgd.ordinary": ("OrdinaryTraining", "train_on_public", "train_without_privacy"),
        "dpsgd.sampling": ("make_schedule",),
        "dpsgd.settings": ("SamplingSettings",),
        "dpsgd.train": (
            "Decay",
            "Learning",
            "Mechanism",
            "Performance",
            "Training",
            "train=run_dpsgd",
        ),
    },
)
