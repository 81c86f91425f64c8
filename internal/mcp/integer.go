package mcp

import (
	"strconv"
	"strings"
)

// maxIntegerDigits bounds the digits of an integer that is written with an exponent.
const maxIntegerDigits = 32

// integer returns the one spelling of the integer that a JSON number is. Some write
// the number they got as 1.0 or 1e0, which is the same number (RFC 8259 section 6;
// JSON Schema, Validation, 6.1.1: an integer is a number with a zero fractional part).
// ok is false for one with a fractional part. No precision is lost: it is text.
func integer(number string) (text string, ok bool) {
	digits, negative := strings.CutPrefix(number, "-")
	if at := strings.IndexAny(digits, ".eE"); at >= 0 {
		if digits, ok = wholeDigits(digits); !ok {
			return "", false
		}
	}
	if digits == "0" || !negative {
		return digits, true
	}
	return number[:1] + digits, true
}

// wholeDigits writes a number that has a fraction or an exponent, and no sign, without.
func wholeDigits(number string) (digits string, ok bool) {
	mantissa, power := number, 0
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		var err error
		if power, err = strconv.Atoi(number[at+1:]); err != nil {
			return "", false // beyond anything that is an id
		}
		mantissa = number[:at]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	fraction = strings.TrimRight(fraction, "0")
	digits = strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0", true
	}
	// The number is digits times ten to the power of zeros.
	trimmed := strings.TrimRight(digits, "0")
	zeros := len(digits) - len(trimmed) - len(fraction)
	if power < -maxIntegerDigits-len(number) || power > maxIntegerDigits+len(number) {
		return "", false
	}
	if zeros += power; zeros < 0 || len(trimmed)+zeros > maxIntegerDigits {
		return "", false
	}
	return trimmed + strings.Repeat("0", zeros), true
}
