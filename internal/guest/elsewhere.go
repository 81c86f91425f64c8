package guest

import (
	"strconv"
	"strings"
)

// maxElsewhere is how many ports help a person who looks for one. Where there are
// more, the container is on the machine's own network.
const maxElsewhere = 3

// Elsewhere tells a person whose server listens on another port than it is thought
// to, which.
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
