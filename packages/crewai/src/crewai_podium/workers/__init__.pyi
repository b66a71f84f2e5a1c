from .wrap import as_worker as as_worker
