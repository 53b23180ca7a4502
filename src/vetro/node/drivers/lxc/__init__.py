"""System containers with LXC. `hypervisor` is the driver's part. The others are the configuration
of a container (`config`), the machine's resources for containers (`host`, `id_ranges`), inspection
of running ones (`inside`, `monitors`, `interfaces`) and export of stopped ones (`export`).
"""
