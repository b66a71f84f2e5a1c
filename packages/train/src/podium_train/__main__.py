"""`python -m podium_train` is `podium-train`, for launchers such as `accelerate launch`."""

from podium_train.commands import main

main()
