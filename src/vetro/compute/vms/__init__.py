"""Virtual machines and containers: their life (`lifecycle`), their NICs and sizes, the images that they
start from (`image_store`; `image_copies` knows which nodes have them), their volumes (`volumes`,
`volume_places`), and those that nodes report although no record knows them (`unknown_vms`).

A VM is a row here before its node hears of it, and the row says what was asked for; what a node
reports is kept beside it (`reported_vms`). Work on a node is a stored task (`work`), so that it ends
whatever happens to the process that began it.
"""
