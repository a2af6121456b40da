"""What ours is compared with, where no package has it: written from the papers."""
