package mcp

import (
	"encoding/json"
	"errors"
)

// maxPages bounds the pages of one list.
const maxPages = 100

// ErrEndlessList is the error of a list with too many pages.
var ErrEndlessList = errors.New("the list does not end")

// Pages reads all pages of a list (MCP, Pagination), at most 100. send sends one request
// with the params and returns its response. page receives each result. The first error ends
// the list; an error response of the server is one.
func Pages(send func(params json.RawMessage) (*Message, error), page func(result json.RawMessage) error) error {
	params := json.RawMessage(`{}`)
	for range maxPages {
		answer, err := send(params)
		if err != nil {
			return err
		}
		if answer.Error != nil {
			return answer.Error
		}
		if err := page(answer.Result); err != nil {
			return err
		}
		cursor, found, err := Lookup(answer.Result, "nextCursor")
		if err != nil {
			return err
		}
		// The SDKs take null and "" for the end too.
		if !found || string(cursor) == "null" || string(cursor) == `""` {
			return nil
		}
		if cursor[0] != '"' {
			return badParams("nextCursor must be a string")
		}
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
	return ErrEndlessList
}
