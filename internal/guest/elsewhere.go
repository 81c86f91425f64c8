package guest

import (
	"strconv"
	"strings"
)

// maxElsewhere is the most ports that are listed. With more, the container is probably
// on the host's network.
const maxElsewhere = 3

// Elsewhere returns the end of a message about a port on which nothing listens: ", but
// on port 3001". It is "" if ports is empty or too long to help.
func Elsewhere(ports []int) string {
	if len(ports) == 0 || len(ports) > maxElsewhere {
		return ""
	}
	words := make([]string, len(ports))
	for i, port := range ports {
		words[i] = strconv.Itoa(port)
	}
	noun := " port "
	if len(words) > 1 {
		noun = " ports "
	}
	return ", but on" + noun + strings.Join(words, " and ")
}
