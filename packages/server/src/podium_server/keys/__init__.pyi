from .access import (
    Access as Access,
    Admission as Admission,
    Ask as Ask,
    NoKeys as NoKeys,
)
from .account import BILLION as BILLION, Period as Period
from .caller import Caller as Caller
from .key import Key as Key, KeyRules as KeyRules, Role as Role, check_policy as check_policy
from .key_access import KeyAccess as KeyAccess
from .key_store import KeyStore as KeyStore
from .refusals import (
    BudgetReserved as BudgetReserved,
    BudgetSpent as BudgetSpent,
    CsrfMissing as CsrfMissing,
    KeyInvalid as KeyInvalid,
    KeyRefused as KeyRefused,
    ModelNotAllowed as ModelNotAllowed,
    PolicyUnfit as PolicyUnfit,
    RateLimited as RateLimited,
    RoleMissing as RoleMissing,
    TooManyAtOnce as TooManyAtOnce,
    Unpriced as Unpriced,
)
from .sessions import Session as Session, Sessions as Sessions
