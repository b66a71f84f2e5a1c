"""The prompts that are sent to models: texts, and the code that fills them in."""
