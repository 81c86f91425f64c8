package guest

import (
	"bufio"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// listening returns the TCP ports that processes in this container listen on, ascending.
func listening() []int {
	var ports []int
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue // a kernel without IPv6
		}
		ports = append(ports, listeners(f)...)
		f.Close()
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// listeners reads a table of sockets (proc(5), /proc/net/tcp): the second column is
// the local address, ADDRESS:PORT in hexadecimal, the fourth the state, of which 0A
// is LISTEN. A socket on an address of 127.0.0.0/8 other than 127.0.0.1 is the engine's
// name server and left out.
func listeners(table io.Reader) []int {
	var ports []int
	lines := bufio.NewScanner(io.LimitReader(table, 1<<20))
	for lines.Scan() {
		column := strings.Fields(lines.Text())
		if len(column) < 4 || column[3] != "0A" {
			continue
		}
		address, hex, _ := strings.Cut(column[1], ":")
		if strings.HasSuffix(address, "7F") && address != "0100007F" {
			continue // in little-endian order, as on every machine that has a guest
		}
		if port, err := strconv.ParseUint(hex, 16, 16); err == nil && port > 0 {
			ports = append(ports, int(port))
		}
	}
	return ports
}
