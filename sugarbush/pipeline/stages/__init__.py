from sugarbush.pipeline.parent_death import die_with_dvc

die_with_dvc()
