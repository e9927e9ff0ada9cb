"""What to change about findings: kernel command lines by bootloader, firmware settings, settings that last until a restart."""
