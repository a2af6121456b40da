"""Several devices and several machines. What is computed on them lives in the other rooms.

- `devices`: one function over many rows on all devices: `map_batches`, `over_devices`, meshes and shardings
- `processes`: the processes of a job on several machines: how they start, which one leads, shares of rows
"""
