// Package ptytest gives tests a terminal. It works on Linux only.
package ptytest

import "time"

// LongEnough bounds every wait of a test for something that must happen.
const LongEnough = time.Minute
