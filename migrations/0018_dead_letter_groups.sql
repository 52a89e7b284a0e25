-- migrate:up
-- One index for everything that is asked of a group: which there are, how many it holds, its first and last, and its
-- letters in their order, each without reading the others.
DROP INDEX upstream.dead_letters_handler_group_idx;
CREATE INDEX dead_letters_handler_group_idx ON upstream.dead_letters (handler, error_group, died_at);

-- migrate:down
DROP INDEX upstream.dead_letters_handler_group_idx;
CREATE INDEX dead_letters_handler_group_idx ON upstream.dead_letters (handler, error_group);
