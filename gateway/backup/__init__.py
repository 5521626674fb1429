"""Backups of Postgres and the store together, and new installations made of them.

backup_directory.py  the directory of backups: names, manifests, digests
taking.py            one backup of a running installation
restoring.py         an empty Postgres and new store nodes filled with one
"""
