"""Reports of a node to the compute service: its machine (`sysinfo`), its VMs, memory and disks
(`status`), and their timing (`hotplug`, `reporter`).
"""
