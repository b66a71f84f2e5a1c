from .access import (
    Access as Access,
    Admission as Admission,
    Ask as Ask,
    Caller as Caller,
    NoKeys as NoKeys,
)
from .headers import refusal_headers as refusal_headers
from .key import Key as Key, KeyRules as KeyRules, Role as Role
from .key_access import KeyAccess as KeyAccess
from .key_store import KeyStore as KeyStore
from .refusals import (
    BudgetReserved as BudgetReserved,
    BudgetSpent as BudgetSpent,
    KeyInvalid as KeyInvalid,
    KeyRefused as KeyRefused,
    ModelNotAllowed as ModelNotAllowed,
    PolicyUnfit as PolicyUnfit,
    RateLimited as RateLimited,
    TooManyAtOnce as TooManyAtOnce,
    Unpriced as Unpriced,
)
