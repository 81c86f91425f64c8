package guest

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestListening(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if port := l.Addr().(*net.TCPAddr).Port; !slices.Contains(listening(), port) {
		t.Errorf("%d is not among %v", port, listening())
	}
}

// Lines of /proc/net/tcp and tcp6, and malformed ones.
func TestListeners(t *testing.T) {
	t.Parallel()
	table := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 0B00007F:A59F 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0
   1: 0100007F:0BB9 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0
   2: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0
   3: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A
   4: 00000000:XYZ 00000000:0000 0A
   5: 00000000:1FFFF 00000000:0000 0A

   6: short`
	if diff := cmp.Diff([]int{3001, 80}, listeners(strings.NewReader(table))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestElsewhere(t *testing.T) {
	t.Parallel()
	for want, ports := range map[string][]int{
		"":                             nil,
		", but on port 3001":           {3001},
		", but on ports 3001 and 3002": {3001, 3002},
	} {
		if got := Elsewhere(ports); got != want {
			t.Errorf("%v: %q", ports, got)
		}
	}
	if got := Elsewhere([]int{1, 2, 3, 4}); got != "" {
		t.Errorf("with too many ports: %q", got)
	}
}
