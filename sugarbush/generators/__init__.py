"""A generator receives requests and returns texts, with token counts.

`openai`, `huggingface` and `pool` are built in. The simulator is in `sugarbush.examples`.
"""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.generators.huggingface.steering import ActivationReader as ActivationReader
    from sugarbush.generators.interface import Answer as Answer
    from sugarbush.generators.interface import Generator as Generator
    from sugarbush.generators.interface import GeneratorContext as GeneratorContext
    from sugarbush.generators.interface import GeneratorSettings as GeneratorSettings
    from sugarbush.generators.interface import RandomRequest as RandomRequest
    from sugarbush.generators.interface import Request as Request
    from sugarbush.generators.interface import Usage as Usage
    from sugarbush.generators.interface import VariationRequest as VariationRequest
    from sugarbush.generators.interface import usage_of as usage_of
    from sugarbush.generators.prompts import SEPARATOR as SEPARATOR
    from sugarbush.generators.prompts import continuation as continuation
else:
    __getattr__ = lazy_names(__name__)
