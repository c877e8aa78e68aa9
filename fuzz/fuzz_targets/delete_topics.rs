//! DeleteTopics requests of every version.
#![no_main]

rallypoint_fuzz::request!(delete_topics::DeleteTopicsRequest, DeleteTopics);
