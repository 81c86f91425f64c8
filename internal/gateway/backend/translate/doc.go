// Package translate serves clients of one protocol era at a server of the other. [Down]
// serves clients of the session era at a stateless server. [Up] serves stateless clients in
// sessions at a server of the session era.
package translate
