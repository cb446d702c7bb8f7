"""Ways to choose what stays in the cache, one a file, behind one interface (`base.Policy`)."""

from repro.actkv.policies.actkv import ActKV, AdaptiveActKV
from repro.actkv.policies.agentkv import AgentKV
from repro.actkv.policies.fullkv import FullKV
from repro.actkv.policies.h2o import H2O
from repro.actkv.policies.lrfu_all import LRFUAll
from repro.actkv.policies.random_keep import RandomKeep
from repro.actkv.policies.rkv import RKV
from repro.actkv.policies.snapkv import SnapKV
from repro.actkv.policies.streaming import StreamingLLM
from repro.actkv.policies.tova import TOVA

POLICIES = {
    "fullkv": FullKV,
    "streaming": StreamingLLM,
    "h2o": H2O,
    "snapkv": SnapKV,
    "tova": TOVA,
    "rkv": RKV,
    "agentkv": AgentKV,
    "random": RandomKeep,
    "lrfu-all": LRFUAll,
    "actkv": ActKV,
    "actkv-adaptive": AdaptiveActKV,
}
