package workload

import "fmt"

// NoDiskLimit is the [Container] DiskLimit of a server that may fill the disk.
const NoDiskLimit = -1

// defaultDisk is the limit of a container that has none of its own, in bytes.
const defaultDisk = 10 << 30

// Disk is what the server may write in its container, in bytes; 0 is no bound.
func (c *Container) Disk() int64 {
	switch c.DiskLimit {
	case 0:
		return defaultDisk
	case NoDiskLimit:
		return 0
	}
	return c.DiskLimit
}

// Bytes is a number of bytes for a person, in the units of --memory and --disk-limit.
func Bytes(n int64) string {
	unit := int64(1)
	for _, name := range []string{" bytes", " KiB", " MiB", " GiB"} {
		if n < 1024*unit || name == " GiB" {
			if n%unit == 0 {
				return fmt.Sprintf("%d%s", n/unit, name)
			}
			return fmt.Sprintf("%.1f%s", float64(n)/float64(unit), name)
		}
		unit *= 1024
	}
	return ""
}
