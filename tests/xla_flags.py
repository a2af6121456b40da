"""How XLA compiles in tests."""


def flags_for(devices: int) -> str:
    """XLA_FLAGS for that many devices on a CPU, with few optimisations: what takes the time is
    compiling."""
    return (
        f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0 "
        "--xla_cpu_use_fusion_emitters=false"
    )
