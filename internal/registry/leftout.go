package registry

import (
	"errors"
	"fmt"
	"strings"
)

// maxReasons bounds how many reasons a LeftOut holds.
const maxReasons = 5

// LeftOut counts the entries of a list that a reader passed over. One entry that
// cannot be used does not make the rest of a list unusable.
type LeftOut struct {
	// Malformed entries cannot be used: a required member is missing or invalid.
	Malformed int
	// Reasons are errors of the first of the malformed entries.
	Reasons []string
	// Others are skills and plugins, which are not servers.
	Others int
}

// Add counts a malformed entry.
func (l *LeftOut) Add(reason error) {
	if l.Malformed++; len(l.Reasons) < maxReasons {
		l.Reasons = append(l.Reasons, reason.Error())
	}
}

// Join adds the counts of another part of the same list.
func (l *LeftOut) Join(more LeftOut) {
	l.Malformed += more.Malformed
	l.Others += more.Others
	l.Reasons = append(l.Reasons, more.Reasons[:min(len(more.Reasons), maxReasons-len(l.Reasons))]...)
}

// Why lists the reasons in one line; "" without malformed entries. The text may
// repeat what an entry holds, quoted.
func (l LeftOut) Why() string {
	text := strings.Join(l.Reasons, "; ")
	if more := l.Malformed - len(l.Reasons); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Unusable is the error for a list none of whose entries can be used; nil when
// one of them can, or when the list is empty.
func (l LeftOut) Unusable(used int) error {
	if used > 0 || l.Malformed == 0 {
		return nil
	}
	return fmt.Errorf("none of its %d entries can be used: %s", l.Malformed, l.Why())
}

// explain adds to an error about a name that is not found that entries were left
// out, since the name may be one of theirs.
func (l LeftOut) explain(err error) error {
	if l.Malformed == 0 || !errors.Is(err, ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w (%d entries of the registry cannot be used: %s)", err, l.Malformed, l.Why())
}
