from .metrics import CONTENT_TYPE as CONTENT_TYPE, Metrics as Metrics
