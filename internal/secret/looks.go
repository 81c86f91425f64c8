package secret

import "regexp"

// secretName marks names of variables whose values are secrets.
var secretName = regexp.MustCompile(`(?i)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH$|AUTHORIZATION$|COOKIE$|_KEY$|_PAT$|^PAT$|DSN$|CONNECTION_STRING)`)

// secretValue marks values by the beginnings that well-known issuers give theirs.
var secretValue = regexp.MustCompile(`^(gh[pousr]_|github_pat_|glpat-|sk-|sk_live_|xox[abprs]-|AKIA|ASIA|AIza|eyJ[A-Za-z0-9_-]+\.eyJ|(?i:Bearer|Basic) |-----BEGIN [A-Z ]*PRIVATE KEY)`)

// Looks reports whether a variable looks as if its value were a secret.
func Looks(name, value string) bool {
	return secretName.MatchString(name) || secretValue.MatchString(value)
}
