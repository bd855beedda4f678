"""A generator receives requests and returns texts, with token counts.

interface                       requests, answers, and the interface of a generator plug-in
settings                        the section `generator`, which finds plug-ins by name
prompts, answer_checks, answers prompts for language models, and checks of their answers
answer_cache, progress          a cache of answers, a progress bar
openai/, huggingface/, pool     the built-in generators; the simulator is in sugarbush.examples
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
        "prompts": ("SEPARATOR", "continuation"),
    },
)
