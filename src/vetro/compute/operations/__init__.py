"""Operators' actions on whole servers: setup, reboot and NIC updates (`server_jobs`), moving VMs
and draining (`migration`), recreating a dead server's VMs elsewhere (`evacuation`). All of them
are jobs (`work.jobs`).
"""
