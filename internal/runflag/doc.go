// Package runflag reads what a person writes for `thv run`: the values of -e, -v, -p
// and -l, env files, permission profiles, and the strict JSON of profiles and exported
// configurations. Faults name the flag, or the file and its line, and all faults of a
// flag are reported at once. Whether the values are valid together is decided by
// workload.Validate.
package runflag
