"""Virtual machines and containers: their life (`lifecycle`), the images they start from
(`image_store`), and those that nodes report although no record knows them (`unknown_vms`).
"""
