package command

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

func TestFileMappings(t *testing.T) {
	t.Parallel()
	const smaps = `00400000-00500000 r-xp 00000000 fe:00 1 /bin/operator
Rss:                 100 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
00500000-00600000 r--p 00100000 fe:00 1 /bin/operator
Anonymous:             4 kB
00600000-00700000 rw-p 00200000 fe:00 1 /bin/operator
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000001000 r-xp 00000000 fe:00 2 /lib/other
Anonymous:             0 kB
7fff00000000-7fff00001000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
`
	got := fileMappings(bufio.NewScanner(strings.NewReader(smaps)), "/bin/operator")
	if len(got) != 1 || got[0] != (mapping{0x400000, 0x500000}) {
		t.Errorf("mappings are %x; only that which is not written, without pages of its own", got)
	}
}

// The program goes on after its pages were dropped, and is smaller.
func TestDropProgram(t *testing.T) {
	size := func() (kB string) {
		b, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(b), "RssFile:")
		kB, _, _ = strings.Cut(strings.TrimSpace(after), " ")
		return kB
	}
	before := size()
	dropProgram()
	after := size()
	if len(after) > len(before) || len(after) == len(before) && after >= before {
		t.Errorf("%s kB of files are resident, %s before", after, before)
	}
}
