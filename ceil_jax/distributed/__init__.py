"""Computing on all devices of one machine.

- `devices`: `map_batches` and `over_devices`, which apply a function to many rows on all devices;
  meshes and shardings
- `machine`: this machine in words (`device`), and device hours (`device_hours`)
"""
