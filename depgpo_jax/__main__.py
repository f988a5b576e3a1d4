"""`python -m depgpo_jax` is the command `depgpo`."""

from depgpo_jax.cli import main

if __name__ == "__main__":
    main()
