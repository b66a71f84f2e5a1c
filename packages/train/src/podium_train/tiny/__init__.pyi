from .prompt import (
    CHAT_TEMPLATE as CHAT_TEMPLATE,
    tiny_message as tiny_message,
)
