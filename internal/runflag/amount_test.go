package runflag

import "testing"

func TestMemory(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"512m": 512 << 20, "512M": 512 << 20, "1.5g": 3 << 29, "2GiB": 2 << 30, "2gb": 2 << 30, "1024k": 1 << 20, "1t": 1 << 40, "1073741824": 1 << 30, "10b": 10,
	} {
		if got, err := Memory(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "m", "-1m", "1x", "1 g", "1e9", "0x10", "1.m", "999999999999999t", "1gg"} {
		if got, err := Memory(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func TestDisk(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"50m": 50 << 20, "20g": 20 << 30, "none": -1, "None": -1, "0": -1, "0g": -1} {
		if got, err := Disk(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "no", "all", "5x"} {
		if got, err := Disk(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func FuzzMemory(f *testing.F) {
	f.Add("1.5g")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := Memory(text); err == nil && n < 0 {
			t.Errorf("%q is %d", text, n)
		}
	})
}
