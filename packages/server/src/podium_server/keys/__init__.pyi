from .access import (
    Access as Access,
    Admission as Admission,
    Ask as Ask,
    NoKeys as NoKeys,
)
from .account import BILLION as BILLION, Period as Period
from .key import (
    BudgetReserved as BudgetReserved,
    BudgetSpent as BudgetSpent,
    Caller as Caller,
    CsrfMissing as CsrfMissing,
    Key as Key,
    KeyInvalid as KeyInvalid,
    KeyRefused as KeyRefused,
    KeyRules as KeyRules,
    ModelNotAllowed as ModelNotAllowed,
    PolicyUnfit as PolicyUnfit,
    RateLimited as RateLimited,
    Role as Role,
    RoleMissing as RoleMissing,
    TooManyAtOnce as TooManyAtOnce,
    Unpriced as Unpriced,
    check_policy as check_policy,
)
from .key_access import KeyAccess as KeyAccess
from .sessions import Session as Session, Sessions as Sessions
from .store import KeyStore as KeyStore
