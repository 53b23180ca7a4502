"""Streams between clients and VMs: temporary servers (`servers`), their JSON lines (`lines`), and
serial consoles that several clients share (`serial_consoles`).
"""
