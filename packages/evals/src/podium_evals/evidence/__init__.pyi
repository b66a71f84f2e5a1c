from .kept import (
    KeptAnswers as KeptAnswers,
)
from .measuring import (
    PARTS as PARTS,
    Measured as Measured,
    Part as Part,
    measure as measure,
)
from .page import (
    write_page as write_page,
)
