from .app import App as App, create_app as create_app
from .commands.serve import serve_in_thread as serve_in_thread
from .models import demo_config as demo_config

__version__: str
