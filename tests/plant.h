/* plant.h - a fault planted in a copy of a template: one exact text replaced, in a temporary folder that a generator
 * searches before templates/. An edit whose text is gone, or there twice, or that changes nothing fails the test: it
 * cannot rot. Suites run from the project's folder. */
#ifndef TESTS_PLANT_H
#define TESTS_PLANT_H

struct edit {
    const char *file; /* below templates/ */
    const char *text; /* must be there exactly once */
    const char *instead;
};

/* Fixtures: the folder, empty; and gone. */
void plant_folder_make(void);
void plant_folder_remove(void);
const char *plant_folder(void);
/* A second edit of a file edits the edited copy. */
void plant(const struct edit *edit);

#endif
