"""Virtual machines with QEMU, through the agent's own libvirt daemon.

`hypervisor` is the driver's part. A VM's record becomes a `plan`, the plan a `domain`; `disks` and
`seed` are its files; `daemon`, `connection`, `libvirt` and `events` connect to libvirt; `inside`,
`exec` and `processes` inspect running VMs; `limits` bounds their processors, `io_errors` finds
those that QEMU stopped; `migration` and `migration_steps` move them; `accel` tests whether KVM
works.
"""
