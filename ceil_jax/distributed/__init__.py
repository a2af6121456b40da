"""The devices of one machine, and computing on all of them.

- `devices`: `map_batches` and `over_devices`, which apply a function to many rows on all devices;
  meshes and shardings
- `machine`: this machine in words (`device`), and device hours (`device_hours`)
"""
