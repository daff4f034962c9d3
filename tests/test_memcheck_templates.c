/* test_memcheck_templates.c - faults planted in the shipped templates that leave the results right, or most of the time
 * right, and that the memory checker finds: it names the template's file and line of both accesses. The unedited
 * templates run clean in every suite. May call: tests/whole.h, plant.h. */
#include <tests/plant.h>
#include <tests/whole.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUSHED "pv=fp8 heads=16 dcp=1 splits=1 context=300 steps=1 form=pushed"
#define PAIRS "pv=fp8 heads=40 dcp=2 page=64 splits=1 context=150 steps=1 form=pushed"
#define PLAIN "heads=2 dcp=1 context=150 steps=1 form=pushed"

static const struct {
    const char *name, *layer;
    struct edit edits[2];
    const char *says;
    struct {
        const char *file, *text;
    } at[2]; /* lines of the edited templates */
} faults[] = {
    {"a slot's scales are written while lanes may still read them",
     PUSHED,
     {{"lib/hopper_value.lua",
       "|   bar.warp.sync  0xffffffff;                          // every lane has read the slot's scales and flags\n",
       ""}},
     "shared race, write after read",
     {{"lib/hopper_few.lua", "st.shared.v2.f32 [$(scales)+$(shape.SCALE + 32 * i)]"},
      {"lib/hopper_value.lua", "ld.shared.v2.f32 {$(by[0]), $(by[1])}"}}},
    {"the block meets before the word is there that all of it reads",
     PAIRS,
     {{"lib/hopper_decode.lua", "| $(known):\n    hopper.meet()\n", "| $(known):\n"}},
     "uninitialised shared read",
     {{"lib/hopper_decode.lua", "ld.shared.v2.u32 {$(a.parity), $(a.dead)}"}}},
    {"P is read before all of it is there",
     PLAIN,
     {{"lib/attend.lua", "    attend_value.clean(a)\n|   bar.sync       0;\n", "    attend_value.clean(a)\n"}},
     "uninitialised shared read",
     {{"lib/attend_value.lua", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$(p[i])"}}},
    {"a sum begins with what a register holds",
     PLAIN,
     {{"lib/attend.lua", "|   mov.f32        $(a.sum[r]), 0f00000000;\n", ""}},
     "uninitialised register",
     {{"lib/attend_score.lua", "shfl.sync.bfly.b32 $(other), $(a.sum[r])"}}},
};

/* "lib/x.lua:N (PTX line " of the line of a template, edited or not. */
static void place_of(const char *file, const char *text, char place[300]) {
    char path[256], line[1024];
    snprintf(path, sizeof path, "%s/%s", plant_folder(), file);
    if (access(path, F_OK) != 0) snprintf(path, sizeof path, "templates/%s", file);
    place[0] = '\0';
    FILE *from = fopen(path, "r");
    for (int n = 1; from && !place[0] && fgets(line, sizeof line, from); n++)
        if (strstr(line, text)) snprintf(place, 300, "%s:%d (PTX line ", file, n);
    ck_assert_msg(place[0], "%s: no `%s`", file, text);
    if (from) fclose(from);
}

START_TEST(a_planted_fault_is_named_by_template_line) {
    struct whole whole;
    char folders[128], place[300];
    dcpk_error error;
    dcpk_error_init(&error);
    for (size_t i = 0; i < 2 && faults[_i].edits[i].file; i++)
        plant(&faults[_i].edits[i]);
    snprintf(folders, sizeof folders, "%s:templates/checks", plant_folder());
    dcpk_gen *gen = exchange_gen(folders);
    whole_make(&whole, gen, faults[_i].layer);
    whole.cpu.memory_checker = DCPKCPU_CHECKER_ON;
    ck_assert_msg(whole_try(&whole, &error) != DCPK_OK, "%s: went unnoticed", faults[_i].name);
    ck_assert_msg(strstr(error.text, faults[_i].says), "%s: %s", faults[_i].name, error.text);
    for (size_t i = 0; i < 2 && faults[_i].at[i].file; i++) {
        place_of(faults[_i].at[i].file, faults[_i].at[i].text, place);
        ck_assert_msg(strstr(error.text, place), "%s: not %s but: %s", faults[_i].name, place, error.text);
    }
    whole_end_run(&whole);
    whole_close(&whole);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("memcheck_templates");
    TCase *tests = tcase_create("memcheck_templates");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, plant_folder_make, plant_folder_remove);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, a_planted_fault_is_named_by_template_line, 0, (int)(sizeof faults / sizeof faults[0]));
    return exchange_main(suite);
}
