"""`python -m penstock` is the program `penstock`."""

from .cli import main

main()
