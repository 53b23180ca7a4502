"""Images on a node: built (`bootstrap`, `vm_images`), unpacked and packed (`archive`), and kept
(`store`).

`vm_kernel` is the kernel of VM images, `vm_guest` the files written into them besides their
packages.
"""
