"""A generator receives requests and returns texts, with token counts.

`openai`, `huggingface` and `pool` are built in. The simulator is in `sugarbush.examples`.
"""

from sugarbush.lazy_names import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "interface": (
            "Answer",
            "Generator",
            "GeneratorContext",
            "GeneratorSettings",
            "RandomRequest",
            "Request",
            "Usage",
            "VariationRequest",
            "usage_of",
        ),
        "huggingface.steering": ("ActivationReader",),
        "prompts": ("SEPARATOR", "continuation"),
    },
)
