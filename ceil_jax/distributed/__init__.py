"""The devices of one machine. What is computed on them lives in the other rooms.

- `devices`: one function over many rows on all devices: `map_batches`, `over_devices`, meshes and
  shardings
- `machine`: what this machine is, in words (`device`), and its hours (`device_hours`)
"""
