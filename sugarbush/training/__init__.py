"""Training on private text: DP-SGD and confidentially redacted training."""

from typing import TYPE_CHECKING

from sugarbush.lazy_names import lazy_names

if TYPE_CHECKING:
    from sugarbush.training.crt.confidentiality import agreed_gamma as agreed_gamma
    from sugarbush.training.crt.confidentiality import allowed as allowed
    from sugarbush.training.crt.confidentiality import bayesian as bayesian
    from sugarbush.training.crt.confidentiality import noise_for as noise_for
    from sugarbush.training.crt.findings import Finding as Finding
    from sugarbush.training.crt.lstm import LstmModel as LstmModel
    from sugarbush.training.crt.patterns import RegexDetector as RegexDetector
    from sugarbush.training.crt.patterns import described
    from sugarbush.training.crt.policies import make_policy as make_policy
    from sugarbush.training.crt.policies import make_public_policy as make_public_policy
    from sugarbush.training.crt.recall import LabelledText as LabelledText
    from sugarbush.training.crt.recall import load_labelled as load_labelled
    from sugarbush.training.crt.recall import measure
    from sugarbush.training.crt.redact import PAPER_THRESHOLD
    from sugarbush.training.crt.redact import Policy as Policy
    from sugarbush.training.crt.redact import TextSpan as TextSpan
    from sugarbush.training.crt.screening import Screened as Screened
    from sugarbush.training.crt.screening import screen as screen
    from sugarbush.training.crt.sentences import sentences_of as sentences_of
    from sugarbush.training.crt.train import PublicPass as PublicPass
    from sugarbush.training.crt.train import train_by_crt as train_by_crt
    from sugarbush.training.crt.units import add_mask_token as add_mask_token
    from sugarbush.training.crt.units import text_units as text_units
    from sugarbush.training.dpsgd.checkpoints import Checkpoints as Checkpoints
    from sugarbush.training.dpsgd.clipping import PerRecordClipper as PerRecordClipper
    from sugarbush.training.dpsgd.data import control_codes as control_codes
    from sugarbush.training.dpsgd.data import examples_of as examples_of
    from sugarbush.training.dpsgd.data import plain_examples as plain_examples
    from sugarbush.training.dpsgd.data import probe_examples as probe_examples
    from sugarbush.training.dpsgd.generate import generate
    from sugarbush.training.dpsgd.language_modelling import Example as Example
    from sugarbush.training.dpsgd.language_modelling import pad_together as pad_together
    from sugarbush.training.dpsgd.language_modelling import perplexity as perplexity
    from sugarbush.training.dpsgd.language_modelling import token_losses as token_losses
    from sugarbush.training.dpsgd.models import END as END
    from sugarbush.training.dpsgd.models import ModelShape as ModelShape
    from sugarbush.training.dpsgd.models import load, save
    from sugarbush.training.dpsgd.models import merged as merged
    from sugarbush.training.dpsgd.models import new_model as new_model
    from sugarbush.training.dpsgd.models import train_tokenizer as train_tokenizer
    from sugarbush.training.dpsgd.models import with_lora as with_lora
    from sugarbush.training.dpsgd.ordinary import OrdinaryTraining as OrdinaryTraining
    from sugarbush.training.dpsgd.ordinary import train_on_public as train_on_public
    from sugarbush.training.dpsgd.ordinary import train_without_privacy as train_without_privacy
    from sugarbush.training.dpsgd.sampling import make_schedule as make_schedule
    from sugarbush.training.dpsgd.settings import SamplingSettings as SamplingSettings
    from sugarbush.training.dpsgd.train import Decay as Decay
    from sugarbush.training.dpsgd.train import Learning as Learning
    from sugarbush.training.dpsgd.train import Mechanism as Mechanism
    from sugarbush.training.dpsgd.train import Performance as Performance
    from sugarbush.training.dpsgd.train import Training as Training
    from sugarbush.training.dpsgd.train import train

    describe_patterns = described
    measure_recall = measure
    THRESHOLD = PAPER_THRESHOLD
    generate_texts = generate
    load_model = load
    save_model = save
    run_dpsgd = train
else:
    __getattr__ = lazy_names(__name__)
