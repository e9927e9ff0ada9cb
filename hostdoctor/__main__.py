"""`python -m hostdoctor` is the command `hostdoctor`."""

from hostdoctor.cli.main import main

main()
