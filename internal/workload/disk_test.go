package workload

import "testing"

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 bytes", 1023: "1023 bytes", 1 << 10: "1 KiB", 1536: "1.5 KiB", 50 << 20: "50 MiB", 2 << 30: "2 GiB", 3 << 40: "3072 GiB", 154620030: "147.5 MiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestContainer_Disk(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]int64{0: 10 << 30, NoDiskLimit: 0, 50 << 20: 50 << 20} {
		if got := (&Container{DiskLimit: limit}).Disk(); got != want {
			t.Errorf("%d: %d, want %d", limit, got, want)
		}
	}
}
